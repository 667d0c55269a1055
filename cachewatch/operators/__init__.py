"""What operators see and do: the status of the service, its problems and alerts, and commands on digests and deliveries."""
