"""The report page: its data, compressed inside it, and the script and style that show them."""
