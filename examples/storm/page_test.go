package main

import (
	"context"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	drawnLine = regexp.MustCompile(`<path class="(\w+)" d="M[^"]*L[^"]*">`)
	number    = regexp.MustCompile(`<dd class="(\w+)">(\d+)</dd>`)
)

// occurrences counts matches by their first group.
func occurrences(of *regexp.Regexp, in string) map[string]int {
	n := map[string]int{}
	for _, found := range of.FindAllStringSubmatch(in, -1) {
		n[found[1]]++
	}
	return n
}

func TestPage_inChromium(t *testing.T) {
	t.Parallel()
	c := servedConfig()
	s, url := serving(t, c)
	b := openBrowser(t, url+"/")
	status := func() string { return b.eval(t, "document.getElementById('status').textContent") }
	require.Eventually(t, func() bool { return s.readers.Load() == 1 }, time.Minute, 5*time.Millisecond)
	assert.Equal(t, "connecting …", status())

	// The run is drawn as it happens: under the eyes of the browser it goes on
	// until the page shows enough of it.
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	c.Tail = time.Minute
	var r result
	var playing sync.WaitGroup
	playing.Go(func() {
		var err error
		r, err = play(ctx, c, s.follow(func(context.Context, *live) {}))
		assert.NoError(t, err)
	})
	require.Eventually(t, func() bool {
		return regexp.MustCompile(`^[2-9]\.\d s of 62 s · capacity is back$`).MatchString(status())
	}, time.Minute, 50*time.Millisecond)
	document := b.eval(t, "document.documentElement.outerHTML")
	assert.Equal(t, map[string]int{"offered": 3, "goodput": 3, "capacity": 3, "tokens": 1, "refused": 1}, occurrences(drawnLine, document))
	assert.Equal(t, map[string]int{"offered": 3, "goodput": 3, "tokens": 1, "refused": 1}, occurrences(number, document))
	enough()
	playing.Wait()
	s.end(r)

	require.Eventually(t, func() bool { return status() == "Interrupted" }, time.Minute, 20*time.Millisecond)
	document = b.eval(t, "document.documentElement.outerHTML")
	assert.Contains(t, document, "<title>storm: "+c.scenario().Title+"</title>")
	assert.Equal(t, r.Machine.Saturated(), !strings.Contains(document, `<p id="warning" hidden="">`))
	for _, name := range c.Strategies {
		strategy, _ := strategyNamed(name)
		assert.Contains(t, document, ">"+strategy.Title+"</h2>")
	}

	// The numbers are those of the last sample.
	told := listen(t, url)
	last := told.samples[len(told.samples)-1].Readings
	shown := number.FindAllStringSubmatch(document, -1)
	require.Len(t, shown, 8)
	assert.Equal(t, []string{"offered", rounded(last[0].Offered)}, shown[0][1:])
	assert.Equal(t, []string{"goodput", rounded(last[0].Goodput)}, shown[1][1:])
	assert.Equal(t, []string{"tokens", rounded(last[1].Tokens)}, shown[4][1:])
	assert.Equal(t, []string{"refused", rounded(last[1].Refused)}, shown[5][1:])

	lookAround(t, b)
	assert.Empty(t, b.complained())
}

// rounded is a number as the page writes it.
func rounded(n float64) string { return strconv.Itoa(int(math.Floor(n + 0.5))) }

// lookAround looks at the page in light and dark, wide and narrow.
func lookAround(t *testing.T, b *browser) {
	t.Helper()
	scheme := func(name string) string {
		b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
		return b.eval(t, "getComputedStyle(document.body).backgroundColor")
	}
	assert.Equal(t, "rgb(255, 255, 255)", scheme("light"))
	assert.Equal(t, "rgb(20, 23, 27)", scheme("dark"))

	for width, columns := range map[int]string{1280: "2", 360: "1"} {
		b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
		assert.Equal(t, columns, b.eval(t, "getComputedStyle(document.getElementById('strategies')).gridTemplateColumns.split(' ').length"), "%d pixels", width)
		assert.Equal(t, "true", b.eval(t, "document.scrollingElement.scrollWidth <= document.documentElement.clientWidth"), "nothing is wider than %d pixels", width)
	}
}
