package export

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"churnbed/node/core"
	"churnbed/node/eventlog"
	"churnbed/results"
	"churnbed/results/timeline"
)

// Rows of the tables of runs with k-groups. Durations are of scenario time, in
// ms.
type (
	// TermRow is the leadership of a node over a group in an epoch.
	TermRow struct {
		Group      int32    `parquet:"group"`
		Epoch      int64    `parquet:"epoch"`
		Term       int64    `parquet:"term"`
		Leader     int32    `parquet:"leader"`
		Members    string   `parquet:"members"` // by rank, "7 3 12"
		ElectedMS  *float64 `parquet:"elected_ms,optional"`
		ElectionMS *float64 `parquet:"election_ms,optional"` // how long it took
		ActiveMS   *float64 `parquet:"active_ms,optional"`   // serves from here
		EndMS      *float64 `parquet:"end_ms,optional"`      // to here
		Ended      string   `parquet:"ended"`
	}
	// GroupMemberRow is a member of a group in an epoch in which it served.
	GroupMemberRow struct {
		Group  int32    `parquet:"group"`
		Epoch  int64    `parquet:"epoch"`
		Node   int32    `parquet:"node"`
		Rank   int32    `parquet:"rank"`   // from 0
		Leader bool     `parquet:"leader"` // in one of the epoch's terms
		FromMS float64  `parquet:"from_ms"`
		ToMS   *float64 `parquet:"to_ms,optional"`
	}
	// MigrationRow is the time in which a group did not serve, with the
	// instants of the six steps.
	MigrationRow struct {
		Group            int32    `parquet:"group"`
		FromEpoch        int64    `parquet:"from_epoch"`
		ToEpoch          *int64   `parquet:"to_epoch,optional"` // the same: another leader of the old members
		OldLeader        int32    `parquet:"old_leader"`
		NewLeader        int32    `parquet:"new_leader"` // -1: none
		FrozenMS         float64  `parquet:"frozen_ms"`
		SelectedMS       *float64 `parquet:"selected_ms,optional"`
		ElectedMS        *float64 `parquet:"elected_ms,optional"`
		TransferredMS    *float64 `parquet:"transferred_ms,optional"`
		ReplicatedMS     *float64 `parquet:"replicated_ms,optional"`
		DecommissionedMS *float64 `parquet:"decommissioned_ms,optional"`
		ActiveMS         *float64 `parquet:"active_ms,optional"`
		RetiringMS       *float64 `parquet:"retiring_ms,optional"`
		RetiredMS        *float64 `parquet:"retired_ms,optional"`
		GapMS            *float64 `parquet:"gap_ms,optional"` // without monitoring
		ElectionMS       *float64 `parquet:"election_ms,optional"`
		TransferMS       *float64 `parquet:"transfer_ms,optional"`
		ReplicationMS    *float64 `parquet:"replication_ms,optional"`
		Attempts         int32    `parquet:"attempts"`
		Unchanged        bool     `parquet:"unchanged"` // the state that was frozen
	}
	// LockRow is a device's lock in the hands of a run of a routine, or the
	// wish for it.
	LockRow struct {
		Device    int32    `parquet:"device"`
		Group     int32    `parquet:"group"`
		Routine   int32    `parquet:"routine"`
		Run       int64    `parquet:"run"`
		Attempt   int32    `parquet:"attempt"` // from 1
		AskedMS   *float64 `parquet:"asked_ms,optional"`
		GrantedMS *float64 `parquet:"granted_ms,optional"`
		GrantedBy int32    `parquet:"granted_by"` // -1: nobody
		Epoch     int64    `parquet:"epoch"`      // of the grant, else of the request
		Term      int64    `parquet:"term"`
		FreedMS   *float64 `parquet:"freed_ms,optional"`
		FreedBy   int32    `parquet:"freed_by"`
		FreedIn   *int64   `parquet:"freed_epoch,optional"`
		FreedTerm *int64   `parquet:"freed_term,optional"`
		WaitMS    *float64 `parquet:"wait_ms,optional"`
		HeldMS    *float64 `parquet:"held_ms,optional"`
		QuorumMS  *float64 `parquet:"quorum_ms,optional"` // of the grant
		Inherited bool     `parquet:"inherited"`          // the leader that granted it died before it told
	}
	// RoutineRow is one firing of a routine.
	RoutineRow struct {
		Routine     int32    `parquet:"routine"`
		Run         int64    `parquet:"run"` // from 1
		Group       int32    `parquet:"group"`
		Leader      int32    `parquet:"leader"` // the last one
		Epoch       int64    `parquet:"epoch"`
		Term        int64    `parquet:"term"`
		Attempts    int32    `parquet:"attempts"`
		TriggeredMS *float64 `parquet:"triggered_ms,optional"`
		AcquiringMS *float64 `parquet:"acquiring_ms,optional"`
		BackedOffMS *float64 `parquet:"backed_off_ms,optional"` // the last time
		ExecutingMS *float64 `parquet:"executing_ms,optional"`
		ReleasingMS *float64 `parquet:"releasing_ms,optional"`
		DoneMS      *float64 `parquet:"done_ms,optional"`
		DelayMS     *float64 `parquet:"client_delay_ms,optional"`
	}
	// CommandRow is a command at its device.
	CommandRow struct {
		Device  int32    `parquet:"device"`
		Routine int32    `parquet:"routine"`
		Run     int64    `parquet:"run"`
		FromMS  float64  `parquet:"from_ms"`
		ToMS    *float64 `parquet:"to_ms,optional"`
	}
	// FailureRow is a device that its leader took to have failed.
	FailureRow struct {
		Device      int32    `parquet:"device"`
		Group       int32    `parquet:"group"`
		Leader      int32    `parquet:"leader"`
		Epoch       int64    `parquet:"epoch"`
		Term        int64    `parquet:"term"`
		KilledMS    *float64 `parquet:"killed_ms,optional"`
		FailedMS    float64  `parquet:"failed_ms"`
		RecoveredMS *float64 `parquet:"recovered_ms,optional"`
		DetectionMS *float64 `parquet:"detection_ms,optional"` // kill to log line
	}
	// BandwidthRow is what a node sent, UDP payload: monitoring and membership
	// are background. Rates are over the time since the epoch.
	BandwidthRow struct {
		Node        int32   `parquet:"node"`
		Manages     bool    `parquet:"manages"` // it was member of a group
		Foreground  int64   `parquet:"foreground_bytes"`
		Background  int64   `parquet:"background_bytes"`
		ForegroundS float64 `parquet:"foreground_bytes_s"`
		BackgroundS float64 `parquet:"background_bytes_s"`
	}
	// GroupLineRow is a log line of k-groups as it stands there.
	GroupLineRow struct {
		AtMS     float64  `parquet:"at_ms"`
		Node     int32    `parquet:"node"`
		Kind     string   `parquet:"kind"` // group, lock, routine, command, monitor
		State    string   `parquet:"state"`
		Group    int32    `parquet:"group"`
		Epoch    int64    `parquet:"epoch"`
		Term     int64    `parquet:"term"`
		Device   *int32   `parquet:"device,optional"`
		Routine  *int32   `parquet:"routine,optional"`
		Run      *int64   `parquet:"run,optional"`
		Attempt  *int32   `parquet:"attempt,optional"`
		Members  string   `parquet:"members"`
		Locks    string   `parquet:"locks"`
		Digest   string   `parquet:"digest"`
		QuorumMS *float64 `parquet:"took_ms,optional"`
		SinceMS  *float64 `parquet:"since_ms,optional"`
	}
)

// knownMS returns an instant in ms, nil where there is none.
func knownMS(ns int64) *float64 { return optionalMS(ns, ns >= 0) }

// lasted returns a length in ms, nil where it is not known.
func lasted(from, to int64) *float64 { return optionalMS(to-from, from >= 0 && to >= from) }

func tookMS(ns int64) *float64 { return optionalMS(ns, ns > 0) }

// attempt splits a ticket for the tables, which count attempts from 1.
func attempt(ticket uint64) (run int64, number int32) {
	r, a := eventlog.SplitTicket(ticket)
	return int64(r), int32(a) + 1
}

func termRows(t *timeline.Timeline) []TermRow {
	var rows []TermRow
	for i := range t.Groups.Terms {
		m := &t.Groups.Terms[i]
		rows = append(rows, TermRow{
			Group: m.Group, Epoch: int64(m.Epoch), Term: int64(m.Term), Leader: nodeNumber(m.Leader), Members: idText(m.Members),
			ElectedMS: knownMS(m.Elected), ElectionMS: optionalMS(m.Election, m.Elected >= 0), ActiveMS: knownMS(m.Active), EndMS: knownMS(m.End), Ended: string(m.How),
		})
	}
	return rows
}

func idText(ids []core.NodeID) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return string(b)
}

func groupMemberRows(t *timeline.Timeline) []GroupMemberRow {
	type key struct {
		group int32
		epoch uint64
		node  core.NodeID
	}
	at := map[key]int{}
	var rows []GroupMemberRow
	for i := range t.Groups.Terms {
		m := &t.Groups.Terms[i]
		if m.Active < 0 {
			continue
		}
		for rank, id := range m.Members {
			k := key{m.Group, m.Epoch, id}
			j, known := at[k]
			if !known {
				j = len(rows)
				at[k] = j
				rows = append(rows, GroupMemberRow{Group: m.Group, Epoch: int64(m.Epoch), Node: nodeNumber(id), Rank: int32(rank), FromMS: ms(m.Active)})
			}
			r := &rows[j]
			r.Leader = r.Leader || id == m.Leader
			if to := knownMS(m.End); to != nil && (r.ToMS == nil || *to > *r.ToMS) {
				r.ToMS = to
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b GroupMemberRow) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Rank, b.Rank))
	})
	return rows
}

func migrationRows(t *timeline.Timeline) []MigrationRow {
	var rows []MigrationRow
	for i := range t.Groups.Migrations {
		m := &t.Groups.Migrations[i]
		r := MigrationRow{
			Group: m.Group, FromEpoch: int64(m.From), OldLeader: nodeNumber(m.OldLeader), NewLeader: nodeNumber(m.NewLeader), FrozenMS: ms(m.Frozen),
			SelectedMS: knownMS(m.Selected), ElectedMS: knownMS(m.Elected), TransferredMS: knownMS(m.Transferred), ReplicatedMS: knownMS(m.Replicated),
			DecommissionedMS: knownMS(m.Decommissioned), ActiveMS: knownMS(m.Active), RetiringMS: knownMS(m.Retiring), RetiredMS: knownMS(m.Retired),
			GapMS: lasted(m.Frozen, m.Active), ElectionMS: optionalMS(m.Election, m.Elected >= 0),
			TransferMS: optionalMS(m.Transfer, m.Transferred >= 0), ReplicationMS: optionalMS(m.Replication, m.Replicated >= 0),
			Attempts: int32(m.Attempts), Unchanged: m.Unchanged,
		}
		if m.Active >= 0 {
			to := int64(m.To)
			r.ToEpoch = &to
		}
		rows = append(rows, r)
	}
	return rows
}

func lockRows(t *timeline.Timeline) []LockRow {
	var rows []LockRow
	for i := range t.Groups.Locks {
		l := &t.Groups.Locks[i]
		run, number := attempt(l.Ticket)
		r := LockRow{
			Device: l.Device, Group: l.Group, Routine: l.Routine, Run: run, Attempt: number, AskedMS: knownMS(l.Asked.T), GrantedMS: knownMS(l.Granted.T),
			GrantedBy: nodeNumber(l.Granted.Leader), Epoch: int64(l.Asked.Epoch), Term: int64(l.Asked.Term), FreedMS: knownMS(l.Freed.T), FreedBy: nodeNumber(l.Freed.Leader),
			WaitMS: lasted(l.Asked.T, l.Granted.T), HeldMS: lasted(l.Granted.T, l.Freed.T), QuorumMS: tookMS(l.Granted.Quorum), Inherited: l.Inherited,
		}
		if l.Granted.T >= 0 {
			r.Epoch, r.Term = int64(l.Granted.Epoch), int64(l.Granted.Term)
		}
		if l.Freed.T >= 0 {
			epoch, term := int64(l.Freed.Epoch), int64(l.Freed.Term)
			r.FreedIn, r.FreedTerm = &epoch, &term
		}
		rows = append(rows, r)
	}
	return rows
}

func routineRows(t *timeline.Timeline) []RoutineRow {
	var rows []RoutineRow
	for i := range t.Groups.Runs {
		r := &t.Groups.Runs[i]
		rows = append(rows, RoutineRow{
			Routine: r.Routine, Run: int64(r.Number), Group: r.Group, Leader: nodeNumber(r.Leader), Epoch: int64(r.Epoch), Term: int64(r.Term), Attempts: int32(r.Attempts),
			TriggeredMS: knownMS(r.Triggered), AcquiringMS: knownMS(r.Acquiring), BackedOffMS: knownMS(r.BackedOff), ExecutingMS: knownMS(r.Executing),
			ReleasingMS: knownMS(r.Releasing), DoneMS: knownMS(r.Done), DelayMS: lasted(r.Triggered, r.Executing),
		})
	}
	return rows
}

func commandRows(t *timeline.Timeline) []CommandRow {
	var rows []CommandRow
	for _, c := range t.Groups.Commands {
		run, _ := attempt(c.Ticket)
		rows = append(rows, CommandRow{c.Device, c.Routine, run, ms(c.From), knownMS(c.To)})
	}
	return rows
}

func failureRows(t *timeline.Timeline) []FailureRow {
	var rows []FailureRow
	for _, f := range t.Groups.Failures {
		rows = append(rows, FailureRow{
			f.Device, f.Group, nodeNumber(f.Leader), int64(f.Epoch), int64(f.Term), knownMS(f.Killed), ms(f.Failed), knownMS(f.Recovered),
			lasted(f.Killed, f.Failed),
		})
	}
	return rows
}

func bandwidthRows(t *timeline.Timeline) []BandwidthRow {
	seconds := float64(t.End-max(t.Epoch, 0)) / 1e9
	var rows []BandwidthRow
	for i := range t.Nodes {
		fore, back, manages := results.GroupTraffic(t.Nodes[i].Sent)
		r := BandwidthRow{Node: int32(i), Manages: manages, Foreground: fore, Background: back}
		if seconds > 0 {
			r.ForegroundS, r.BackgroundS = float64(fore)/seconds, float64(back)/seconds
		}
		rows = append(rows, r)
	}
	return rows
}

func groupLineRow(l *results.Line) GroupLineRow {
	e, k := &l.Event, l.Event.KG
	r := GroupLineRow{
		AtMS: ms(e.T), Node: nodeNumber(l.Node), Kind: string(e.Kind), State: e.State, Group: k.Group, Epoch: int64(k.Epoch), Term: int64(k.Term),
		Members: k.Members, Locks: k.Locks, Digest: k.Digest, QuorumMS: tookMS(k.NS), SinceMS: tookMS(k.Since),
	}
	if e.Kind != eventlog.KGroup && e.Kind != eventlog.Routine {
		r.Device = &k.Device
	}
	if k.Ticket != 0 {
		run, number := attempt(k.Ticket)
		r.Routine, r.Run, r.Attempt = &k.Routine, &run, &number
	}
	return r
}

// groupTables writes the tables of a run with k-groups.
func (o *tables) groupTables(t *timeline.Timeline) {
	writeAll(o, "terms", termRows(t))
	writeAll(o, "group_members", groupMemberRows(t))
	writeAll(o, "migrations", migrationRows(t))
	writeAll(o, "locks", lockRows(t))
	writeAll(o, "routines", routineRows(t))
	writeAll(o, "commands", commandRows(t))
	writeAll(o, "device_failures", failureRows(t))
	writeAll(o, "bandwidth", bandwidthRows(t))
	lines := begin[GroupLineRow](o, "group_lines")
	if o.err == nil {
		_, o.err = t.Run.Merge(func(l *results.Line) error {
			if l.Node == core.None || l.Event.KG == nil {
				return nil
			}
			return lines.write(groupLineRow(l))
		})
	}
	o.err = errors.Join(o.err, lines.close())
}
