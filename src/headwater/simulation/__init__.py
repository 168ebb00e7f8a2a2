"""The real engine on a virtual clock, a virtual web and a store in memory, from one seed."""
