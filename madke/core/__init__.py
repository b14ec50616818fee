"""Plain records and small Protocols that every other package uses. Imports no other package of madke."""
