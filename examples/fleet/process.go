package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is a client process, seen from the program that started it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startProcess starts one and waits until it is connected. It ends with ctx.
func startProcess(ctx context.Context, j job) (*process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)} //nolint:gosec // this program
	p.cmd.Env = append(os.Environ(), clientVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = time.Second
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		p.end()
		return nil, fmt.Errorf("a client process did not start: %q: %w", line, errors.Join(err, ctx.Err()))
	}
	return p, nil
}

// play tells the process when to start, and waits for what it saw.
func (p *process) play(start time.Time) (seen outcomes, err error) {
	if _, err := fmt.Fprintln(p.in, start.UnixNano()); err != nil {
		return seen, err
	}
	err = json.NewDecoder(p.out).Decode(&seen)
	return seen, err
}

// end ends the process, if it has not ended by itself.
func (p *process) end() {
	p.in.Close()
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	p.cmd.Wait()         //nolint:errcheck // killed
}
