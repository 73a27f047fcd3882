"""Scores and verdicts of runs to boards, ranks and alarms: functions from frames to a frame."""
