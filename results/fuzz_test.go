package results

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"churnbed/node/core"
	"churnbed/node/eventlog"
)

// Whatever the logs say, judging them ends with a summary that can be
// written, or with the place of a malformed line.
func FuzzJudge(f *testing.F) {
	f.Add([]byte(`{"t":1,"ev":"start","node":0,"inc":1024}
{"t":2,"ev":"joined","node":0,"size":2}
{"t":3,"ev":"request","node":0,"req":"0.1024.1","no":1}
{"t":4,"ev":"enter","node":0,"req":"0.1024.1","no":1,"asked":"0-9"}
{"t":5,"ev":"member","node":0,"peer":1,"pinc":1024,"change":"failed","size":1}
{"t":5,"ev":"exit","node":0,"req":"0.1024.1","no":1}
{"t":6,"ev":"counters","node":0,"sent":{"REQUEST":{"n":1,"bytes":2}}}
{"t":7,"ev":"fidelity","node":0,"probe":{"delay_err":[1],"timer_lag":[1,2,3]}}
`), []byte(`{"t":1,"ev":"epoch","node":-1}
{"t":4,"ev":"kill","node":0,"after":5}
{"t":6,"ev":"slice","node":-1,"host":{"real_ms":1,"frames":10,"dropped":3,"expect_drops":1}}
{"t":9,"ev":"end","node":-1}
`))
	f.Add([]byte(`{"t":3,"ev":"exit","node":7,"req":"x"}`+"\n"+`{"t":-3,"ev":"fenced","req":"0.1.1"}`+"\n{"), []byte(`{"t":9,"ev":"exited","node":1}`))
	f.Add([]byte(`{"t":9,"ev":"enter","req":"0.1.1","asked":"65535"}`+"\n"+`{"t":1,"ev":"start"}`), []byte(`{"t":1,"ev":"kill","node":1}`+"\n"+`{"t":1,"ev":"restart","node":99}`))
	f.Fuzz(func(t *testing.T, node, control []byte) {
		r, err := Create(filepath.Join(t.TempDir(), "run"), &Manifest{Engine: Emulated, TimeScale: 1, Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		for path, b := range map[string][]byte{r.NodeLog(0): node, r.Path(ControllerFile): control} {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r, err = Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		s, v, err := Judge(r)
		if err != nil {
			var line *eventlog.LineError
			if !errors.As(err, &line) {
				t.Fatal(err)
			}
			return
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatal(err)
		}
		for _, q := range v.Requests {
			if q.Node != core.NodeID(0) || q.Entered && q.End < q.Enter || q.Ending == "" {
				t.Fatalf("request %+v", *q)
			}
		}
	})
}
