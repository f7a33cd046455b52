// Package terminal is how the example programs deal with whoever runs them: names
// on the command line, progress, tables and verdicts.
package terminal
