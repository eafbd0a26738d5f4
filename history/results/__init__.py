"""What campaigns find, typed: campaigns write these models as ``result.json``, and the pages read them."""
