package main

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// An ink is a colour that stands for a variable of the report's style sheet,
// so that one drawing is legible in light and dark. plot knows only colours.
type ink struct {
	color    color.RGBA
	variable string
}

var (
	inkText     = ink{color.RGBA{R: 1, G: 2, B: 1, A: 255}, "--text"}
	inkGrid     = ink{color.RGBA{R: 1, G: 2, B: 2, A: 255}, "--grid"}
	inkFault    = ink{color.RGBA{R: 1, G: 2, B: 3, A: 255}, "--fault"}
	inkCapacity = ink{color.RGBA{R: 1, G: 2, B: 4, A: 255}, "--capacity"}
	inkOffered  = ink{color.RGBA{R: 1, G: 2, B: 5, A: 255}, "--offered"}
	inkGoodput  = ink{color.RGBA{R: 1, G: 2, B: 6, A: 255}, "--goodput"}
	inks        = []ink{inkText, inkGrid, inkFault, inkCapacity, inkOffered, inkGoodput}
)

// Size of a chart in points; the page scales it.
const (
	chartWidth  vg.Length = 480
	chartHeight vg.Length = 190
)

// chart draws offered load and goodput of one strategy as an SVG element for
// the report. top is the same for all charts, so that they can be compared.
func chart(c config, st story, m measured, top float64) (template.HTML, error) {
	p := plot.New()
	style(p)
	p.X.Tick.Marker = roundTicks(st.length().Seconds())
	p.Y.Tick.Marker = roundTicks(top)
	p.X.Label.Text = "seconds"
	p.Y.Label.Text = "per second"

	fault, err := faultBand(st, top)
	if err != nil {
		return "", err
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = inkGrid.color
	grid.Horizontal.Width = 0.5
	p.Add(fault, grid)
	for _, l := range []struct {
		points plotter.XYs
		ink    ink
		width  vg.Length
		dashes []vg.Length
	}{
		{capacityLine(c, st), inkCapacity, 1.2, []vg.Length{4, 3}},
		{rateLine(m.Series.Bin, m.Series.Offered), inkOffered, 1.8, nil},
		{rateLine(m.Series.Bin, m.Series.Goodput), inkGoodput, 1.8, nil},
	} {
		if len(l.points) == 0 {
			continue // cut off before the first bin was full
		}
		line, err := plotter.NewLine(l.points)
		if err != nil {
			return "", fmt.Errorf("chart of %s: %w", m.Strategy.Name, err)
		}
		line.LineStyle = draw.LineStyle{Color: l.ink.color, Width: l.width, Dashes: l.dashes}
		p.Add(line)
	}

	// Each Add makes the axes long enough for all that it brings.
	p.X.Min, p.X.Max = 0, st.length().Seconds()
	p.Y.Min, p.Y.Max = 0, top
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return "", fmt.Errorf("chart of %s: %w", m.Strategy.Name, err)
	}
	return inline(svg.String(), "Offered load and goodput over time: "+m.Strategy.Title), nil
}

// style gives a plot the report's font and inks.
func style(p *plot.Plot) {
	p.BackgroundColor = nil
	sans := font.Font{Typeface: "Liberation", Variant: "Sans", Size: 10}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color = inkGrid.color
		axis.Tick.Color = inkGrid.color
		axis.Label.TextStyle.Font = sans
		axis.Label.TextStyle.Color = inkText.color
		axis.Tick.Label.Font = sans
		axis.Tick.Label.Color = inkText.color
		axis.Padding = 0
	}
}

// roundTicks marks at most seven round values from 0 to top.
func roundTicks(top float64) plot.ConstantTicks {
	step := math.Pow(10, math.Floor(math.Log10(top))-1)
	for _, wider := range []float64{2, 2.5, 2, 2} { // 1, 2, 5, 10, 20 times the first
		if top/step <= 6 {
			break
		}
		step *= wider
	}
	var ticks plot.ConstantTicks
	for value := 0.0; value <= top; value += step {
		ticks = append(ticks, plot.Tick{Value: value, Label: strconv.FormatFloat(value, 'g', 6, 64)})
	}
	return ticks
}

// faultBand shades the time of the fault.
func faultBand(st story, top float64) (*plotter.Polygon, error) {
	from, to := st.FaultStart.Seconds(), st.FaultEnd.Seconds()
	band, err := plotter.NewPolygon(plotter.XYs{{X: from}, {X: to}, {X: to, Y: top}, {X: from, Y: top}})
	if err != nil {
		return nil, fmt.Errorf("fault band: %w", err)
	}
	band.Color = inkFault.color
	band.LineStyle.Width = 0
	return band, nil
}

// capacityLine is what the server could finish in each phase.
func capacityLine(c config, st story) plotter.XYs {
	var points plotter.XYs
	for _, p := range st.Phases {
		y := p.Condition.Capacity() * c.capacity()
		points = append(points, plotter.XY{X: p.Start.Seconds(), Y: y}, plotter.XY{X: p.End.Seconds(), Y: y})
	}
	return points
}

// rateLine puts each rate in the middle of its bin.
func rateLine(bin time.Duration, rates []float64) plotter.XYs {
	points := make(plotter.XYs, len(rates))
	for i, rate := range rates {
		points[i] = plotter.XY{X: (float64(i) + 0.5) * bin.Seconds(), Y: rate}
	}
	return points
}

// highest is the top of the charts: the most that any of them has to show. A
// capacity that no load comes near is left out, or it would flatten the rest.
func highest(c config, rows []measured) float64 {
	top := min(c.capacity(), 3*c.Rate)
	for _, m := range rows {
		for _, rate := range m.Series.Offered {
			top = max(top, rate)
		}
	}
	return 1.05 * top
}

var (
	svgPrelude = regexp.MustCompile(`(?s)^.*?<svg [^>]*?viewBox="([^"]*)"[^>]*>`)
	svgFont    = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;`)
)

// inline makes an SVG document a part of the page: no prelude, the width of its
// place, the page's font, and variables for inks.
func inline(svg, label string) template.HTML {
	svg = svgPrelude.ReplaceAllString(svg, `<svg viewBox="$1" role="img" aria-label="`+template.HTMLEscapeString(label)+`">`)
	svg = svgFont.ReplaceAllString(svg, "")
	for _, i := range inks {
		hex := fmt.Sprintf("#%02X%02X%02X", i.color.R, i.color.G, i.color.B)
		svg = strings.ReplaceAll(svg, hex, "var("+i.variable+")")
	}
	return template.HTML(svg) //nolint:gosec // drawn above from numbers; the label is escaped
}
