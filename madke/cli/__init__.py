"""The command line: one module a verb. Parsing, wiring and showing; what is done is done elsewhere."""
