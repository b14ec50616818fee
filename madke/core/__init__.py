"""Plain records and small Protocols that every room shares. Imports nothing of ours."""
