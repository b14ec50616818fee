"""The Python API: debates of one question and of many, and studies."""
