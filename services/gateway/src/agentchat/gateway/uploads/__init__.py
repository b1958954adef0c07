"""Receive, find and send files, whatever the protocol."""
