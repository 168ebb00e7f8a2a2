"""Web page parsing: main text, title, author and feed links."""
