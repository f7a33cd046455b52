package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// page is what the template shows.
type page struct {
	Result     result
	Scenario   scenario
	Command    string
	Columns    []string
	Rows       []pageRow
	Words      []terminal.Word
	Note       string // on grpc-go's retries, if they ran
	Machine    string
	Parameters []terminal.Word
}

type pageRow struct {
	Measured measured
	Cells    []string
	Summary  string // what stands above the chart
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
		Columns:    r.Config.heads(),
		Words:      words(r.Config),
		Machine:    machineText(r.Machine),
		Parameters: parameters(r.Config),
		Scenario:   r.Config.scenario(),
		Note:       r.note(),
	}
	top := highest(r.Config, r.Rows)
	for _, m := range r.Rows {
		svg, err := chart(r.Config, r.Story, m, top)
		if err != nil {
			return err
		}
		p.Rows = append(p.Rows, pageRow{Measured: m, Cells: r.Config.cells(m), Summary: summary(p.Scenario, m), Chart: svg})
	}
	return reportTemplate.Execute(out, p)
}

// Fault says what it is.
func (p page) Fault() string { return p.Scenario.about(p.Result.Config) }

// Interrupted is the sentence on a run that was cut off.
func (p page) Interrupted() string {
	if !p.Result.Interrupted {
		return ""
	}
	return fmt.Sprintf("This run was interrupted after %s of %s. It shows what was measured until then.",
		secondsText(p.Result.Until), secondsText(p.Result.Story.length()))
}

// summary is the cells that the scenario is about.
func summary(s scenario, m measured) string {
	var parts []string
	for _, col := range s.summary {
		parts = append(parts, col.Name+" "+col.cell(m))
	}
	return strings.Join(parts, ", ")
}

func parameters(c config) []terminal.Word {
	return []terminal.Word{
		{Name: "calls", Meaning: fmt.Sprintf("%.4g a second in all (Poisson, open loop) from %d clients with retry state of their own; the same calls at the same moments for every strategy", c.Rate, c.Clients)},
		{Name: "limits", Meaning: fmt.Sprintf("%v for an attempt, %v for a call", c.AttemptTimeout, c.Deadline)},
		{Name: "server", Meaning: fmt.Sprintf("%d workers, %v mean service time, half of it fixed and half exponential: %.4g attempts a second; a queue without an end; work is finished also when its caller has given up",
			c.Workers, c.ServiceTime, c.capacity())},
		{Name: "fault", Meaning: fmt.Sprintf("%s: %s. It lasts %v, after %v of health and followed by %v of health", c.Scenario, c.scenario().about(c), c.Fault, c.Health, c.Tail)},
		{Name: "random errors", Meaning: fmt.Sprintf("%.4g %% of the attempts are answered UNAVAILABLE, all the time", c.Errors)},
		{Name: "seed", Meaning: fmt.Sprint(c.Seed)},
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
