"""Feed parsing: RSS, RDF, Atom, CDF and JSON Feed documents to entries."""
