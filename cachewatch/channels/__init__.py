"""The ways to deliver messages; each module is loaded when `open_channel` opens such a channel."""
