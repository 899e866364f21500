"""The door to models: finding checkpoints, reading parameters, loading and running what they hold."""
