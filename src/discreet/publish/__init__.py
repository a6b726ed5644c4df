"""Publish: answers as frames, files, charts, reports and methods notes. Import the file of what you need."""
