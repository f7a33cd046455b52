package interop_test

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/grpclog"
)

// The test functions of grpc-go end the process with their logger's Fatal when
// something is wrong: the rest of the run would be lost, and its report with
// it. fatalLogger panics instead, before grpclog exits, and run makes an error
// of that, so that each failure fails the one test it belongs to.

// fatal is what fatalLogger panics with.
type fatal string

// fatalLogger is a grpclog logger without the depth methods, so that every
// form of Fatal arrives in one of these three.
type fatalLogger struct{ grpclog.LoggerV2 }

func newFatalLogger() grpclog.LoggerV2 {
	return fatalLogger{grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)}
}

func (fatalLogger) Fatal(args ...any)                 { panic(fatal(fmt.Sprint(args...))) }
func (fatalLogger) Fatalln(args ...any)               { panic(fatal(strings.TrimSpace(fmt.Sprintln(args...)))) }
func (fatalLogger) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

// run calls f and returns what it logged as fatal. Other panics go on.
func run(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatal:
			err = fmt.Errorf("fatal: %s", string(p))
		default:
			panic(p)
		}
	}()
	f()
	return nil
}
