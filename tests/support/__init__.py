"""What tests share: stub servers, toy home folders, sample rows. README.md here lists them."""
