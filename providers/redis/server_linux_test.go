package redis_test

import (
	"os/exec"
	"syscall"
)

// dieWithUs ends a child when the tests are killed and cannot clean up.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
