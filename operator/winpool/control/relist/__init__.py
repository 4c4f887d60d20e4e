"""Which pools exist: from the watch, confirmed by lists."""
