package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// groupLimits are the bounds that control groups set, and what counts against
// the limits of tasks. 0: no bound, or not known.
type groupLimits struct {
	tasksLeft   uint64 // processes and threads that pids.max leaves
	memoryLeft  uint64 // bytes; page cache that can be dropped counts as free
	tasksOfHost uint64 // processes and threads that run now
	tasksOfUser uint64 // of them, this user's
}

// readGroupLimits reads them; what cannot be read is left 0.
func readGroupLimits() groupLimits {
	var g groupLimits
	b, err := os.ReadFile("/proc/self/cgroup")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			g.readGroup(strings.TrimSpace(line))
		}
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil { // "0.1 0.2 0.3 1/130 4711"
		if f := strings.Fields(string(b)); len(f) > 3 {
			_, all, _ := strings.Cut(f[3], "/")
			g.tasksOfHost, _ = strconv.ParseUint(all, 10, 64)
		}
	}
	g.tasksOfUser = tasksOfUser()
	return g
}

// readGroup takes in one line of /proc/self/cgroup, "4:memory:/a/b", or
// "0::/a/b" for version 2, and the groups above it.
func (g *groupLimits) readGroup(line string) {
	f := strings.SplitN(line, ":", 3)
	if len(f) < 3 {
		return
	}
	const root = "/sys/fs/cgroup"
	for dir := filepath.Clean("/" + f[2]); ; dir = filepath.Dir(dir) {
		for _, controller := range strings.Split(f[1], ",") {
			switch controller {
			case "": // version 2
				g.pids(filepath.Join(root, dir))
				g.memory(filepath.Join(root, dir), "memory.max", "memory.current", "inactive_file")
			case "pids":
				g.pids(filepath.Join(root, "pids", dir))
			case "memory":
				g.memory(filepath.Join(root, "memory", dir), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
			}
		}
		if dir == "/" {
			return
		}
	}
}

func (g *groupLimits) pids(dir string) {
	limit, ok := groupValue(dir, "pids.max")
	if !ok {
		return
	}
	now, _ := groupValue(dir, "pids.current")
	lower(&g.tasksLeft, limit, now)
}

func (g *groupLimits) memory(dir, limitFile, nowFile, cacheKey string) {
	limit, ok := groupValue(dir, limitFile)
	if !ok || limit > 1<<60 { // version 1 writes a huge number for none
		return
	}
	now, _ := groupValue(dir, nowFile)
	cache := uint64(0)
	if b, err := os.ReadFile(filepath.Join(dir, "memory.stat")); err == nil {
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, cacheKey+" "); ok {
				cache, _ = strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			}
		}
	}
	lower(&g.memoryLeft, limit, now-min(now, cache))
}

// lower brings *left down to limit less now, but not to 0, which means no
// bound.
func lower(left *uint64, limit, now uint64) {
	n := max(limit, now+1) - now
	if *left == 0 || n < *left {
		*left = n
	}
}

// groupValue reads a number; "max" and what cannot be read are no bound.
func groupValue(dir, name string) (uint64, bool) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// tasksOfUser counts the processes and threads that count against the user's
// RLIMIT_NPROC, as far as /proc shows them.
func tasksOfUser() uint64 {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	me, total := uint32(os.Getuid()), uint64(0)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it has ended
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != me {
			continue
		}
		if tasks, err := os.ReadDir(filepath.Join("/proc", e.Name(), "task")); err == nil {
			total += uint64(len(tasks))
		}
	}
	return total
}
