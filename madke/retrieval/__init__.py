"""Retrieved knowledge: sources by name, web services, documents, indexes, passages, and the pools of questions."""
