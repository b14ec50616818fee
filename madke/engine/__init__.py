"""Debates as a pure function of question, protocol, cast and pool. No network, disk or clock."""
