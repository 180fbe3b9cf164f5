package host

import (
	"testing"
	"time"
)

func TestStatusField(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"Name:\tx\nVmRSS:\t   90 kB\nRssAnon:\t    1234 kB\nRssFile:\t 5 kB\n", 1234 << 10},
		{"RssAnon:\t12 MB\n", 0},
		{"RssAnon:\tx kB\n", 0},
		{"RssAnon:\n", 0},
		{"", 0},
		{"RssAnon:\t-1 kB", 0},
	} {
		if got := statusField([]byte(c.text), "RssAnon:"); got != c.want {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
	}
}

// The kernel tells of this process.
func TestUsage(t *testing.T) {
	for began := time.Now(); used() < 2*time.Millisecond && time.Since(began) < time.Minute; {
		_ = statusField([]byte("RssAnon: 1 kB"), "x") // work
	}
	u := usage()
	if u.CPU <= 0 || u.MaxRSS < 1<<20 || u.Anon <= 0 || u.Anon > u.MaxRSS {
		t.Errorf("%+v", u)
	}
}
