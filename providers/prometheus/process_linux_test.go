package prometheus_test

import (
	"os/exec"
	"syscall"
)

// endWithParent ends the program also when the tests are cut short by a panic,
// their time limit or a signal, after which nothing is cleaned up.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
