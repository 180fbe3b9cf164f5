package host

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"churnbed/node/eventlog"
)

// used returns the processor time of this process so far, 0 where the kernel
// does not tell.
func used() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// usage is what the kernel accounts to this process. Memory is not of
// getrusage: its largest resident set is also that of the process which this
// one was forked from.
func usage() *eventlog.Usage {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b = nil
	}
	return &eventlog.Usage{CPU: int64(used()), MaxRSS: statusField(b, "VmHWM:"), Anon: statusField(b, "RssAnon:")}
}

// statusField reads a line such as "RssAnon:\t    1234 kB" of
// /proc/self/status, in bytes; 0 where there is none.
func statusField(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		f := bytes.Fields(rest)
		if len(f) != 2 || string(f[1]) != "kB" {
			return 0
		}
		n, err := strconv.ParseInt(string(f[0]), 10, 64)
		if err != nil || n < 0 {
			return 0
		}
		return n << 10
	}
	return 0
}
