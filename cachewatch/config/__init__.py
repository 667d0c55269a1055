"""The configuration file, checked: names of sources, channels and subscriptions to frozen values."""
