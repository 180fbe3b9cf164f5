// Package reproduce states the published experiments: what each sweeps and
// measures, what it is held against, and how its table, plot and record look.
// It runs nothing (emulator/reproduce does) and knows no engine.
//
// A sweep is a YAML file of workloads/scenarios/reproduce:
//
//	title, text   what is shown, and what the axes rest on
//	metric        see Metrics
//	x, y          axis titles; log-x, log-y: logarithmic axes
//	trials        seeds a point, unless point or series say otherwise
//	rounds        of list-sizes: protocol periods of 2 s
//	same-seeds    the same seeds at every point
//	processes     the figures are of real processes: nothing to simulate
//	scenario      scenario keys of every run
//	matrix        file of round-trip times below the data folder that makes the
//	              mesh, as many nodes as a point says; otherwise: keys that do
//	              where it is not there
//	sweep         points: x, label, mesh (nodes: the published topology of that
//	              size, else a random mesh of its density, unless the keys name
//	              a topology; none: the keys say all), set (keys), trials, figure
//	series        lines: name, set (keys, above those of the point), trials,
//	              ours (not an imitation: shown, but not part of the verdict),
//	              figure (of a metric with several; KGroups and Assignments
//	              say which), and what it is held against: formula (availability),
//	              reference (file of the authors' runs, where: a selection in
//	              which {x} is the point, only: points that have one),
//	              published (value and relative tolerance, at-least as a share of
//	              x, above and below; only: the points that it is about; shown:
//	              figures by x that are not judged), or points (a file with x,y
//	              to draw instead of runs)
//	claims        statements about shapes, see Claim; they make the verdict
//	lines         published figures to draw across: name, y
//
// Everything here is computing on values and files; callers need not
// serialise.
package reproduce
