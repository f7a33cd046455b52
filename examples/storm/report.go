package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// page is what the template shows.
type page struct {
	Result     result
	Command    string
	Columns    []string
	Rows       []pageRow
	Words      []word
	Note       string // on grpc-go's retries, if they ran
	Machine    string
	Parameters []word
}

type pageRow struct {
	Measured measured
	Cells    []string
	Chart    template.HTML
}

// writeReport writes the HTML report to the path of the config.
func writeReport(r result, args []string) error {
	var text strings.Builder
	if err := renderReport(&text, r, args); err != nil {
		return err
	}
	return os.WriteFile(r.Config.Out, []byte(text.String()), 0o644) //nolint:gosec // a report is there to be read
}

func renderReport(out io.Writer, r result, args []string) error {
	p := page{
		Result:     r,
		Command:    strings.TrimSpace("go -C examples run ./storm " + quoted(args)),
		Columns:    columns,
		Words:      words(r.Config),
		Machine:    r.Machine.text(),
		Parameters: parameters(r.Config),
	}
	if r.hasNative() {
		p.Note = nativeNote
	}
	top := highest(r.Config, r.Rows)
	for _, m := range r.Rows {
		svg, err := chart(r.Config, r.Story, m, top)
		if err != nil {
			return err
		}
		p.Rows = append(p.Rows, pageRow{Measured: m, Cells: m.cells(), Chart: svg})
	}
	return reportTemplate.Execute(out, p)
}

// Interrupted is the sentence on a run that was cut off.
func (p page) Interrupted() string {
	if !p.Result.Interrupted {
		return ""
	}
	return fmt.Sprintf("This run was interrupted after %s of %s. It shows what was measured until then.",
		secondsText(p.Result.Until), secondsText(p.Result.Story.length()))
}

func parameters(c config) []word {
	return []word{
		{"calls", fmt.Sprintf("%.4g a second in all (Poisson, open loop) from %d clients with retry state of their own; the same calls at the same moments for every strategy", c.Rate, c.Clients)},
		{"limits", fmt.Sprintf("%v for an attempt, %v for a call", c.AttemptTimeout, c.Deadline)},
		{"server", fmt.Sprintf("%d workers, %v mean service time, half of it fixed and half exponential: %.4g attempts a second; a queue without an end; work is finished also when its caller has given up",
			c.Workers, c.ServiceTime, c.capacity())},
		{"fault", fmt.Sprintf("%.4g %% of the workers for %v, after %v of health and followed by %v of health", c.FaultCapacity, c.Fault, c.Health, c.Tail)},
		{"random errors", fmt.Sprintf("%.4g %% of the attempts are answered UNAVAILABLE, all the time", c.Errors)},
		{"seed", fmt.Sprint(c.Seed)},
	}
}

// quoted joins arguments so that a shell reads them as they were given.
func quoted(args []string) string {
	var words []string
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " '\"$\\*?;&|<>()`!#~") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
