package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"google.golang.org/grpc/status"
)

// print writes the outcome for people.
func (o outcome) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for i, a := range o.seen {
		header := a.previous
		if header == "" {
			header = "not sent"
		}
		fmt.Fprintf(w, "   server saw\tattempt %d\tgrpc-previous-rpc-attempts: %s\t%d ms left\n",
			i+1, header, a.left.Milliseconds())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if o.err == nil {
		fmt.Fprintf(w, "   returned\t%s\n", o.answer)
	} else {
		st := status.Convert(o.err)
		fmt.Fprintf(w, "   returned\t%v: %s\n", st.Code(), st.Message())
		fmt.Fprintf(w, "   reason\t%v\n", reasonOf(o.err))
		fmt.Fprintf(w, "   error text\t%v\n", o.err)
	}
	fmt.Fprintf(w, "   tokens left\t%v of %v\n", o.budget.Tokens, o.budget.Capacity)
	return w.Flush()
}
