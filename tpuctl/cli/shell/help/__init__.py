"""What --help shows: sections of verbs, own options, examples."""
