"""Document formats that Headwater reads and writes for exchange: OPML, Atom, JSON Feed."""
