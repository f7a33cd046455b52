package redis

// Script is the script, for tests that run it under a clock of their own.
var Script = script
