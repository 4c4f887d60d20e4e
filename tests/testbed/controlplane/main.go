// Command controlplane is a whole Kubernetes control plane in one binary: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl, each as upstream ships it.
//
// The role is the base name the binary was called by (a symlink named "kubectl" is kubectl) or else
// its first argument. Each role is meant to run as a process of its own: they keep global registries
// that collide in one process, and a testbed wants to kill them one by one.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata" // CronJobs name time zones; the machine may have no zone files

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go and workqueue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var roles = map[string]func(){
	"etcd":      func() { etcdmain.Main(os.Args) },
	"apiserver": component(apiserver.NewAPIServerCommand),
	"kcm":       component(kcm.NewControllerManagerCommand),
	"scheduler": component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":   runKubectl,
}

// component runs one of the kube-* servers the way its own main function does.
func component(newCommand func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(newCommand())) }
}

// runKubectl lets kubectl print errors in its own wording, as its own main does. What that does from 1.37 on
// is left out, since 1.32 has no function for it: let -v count while plugins are looked for.
func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

// takeRole finds the role and removes it from the arguments. kubectl looks for plugins by the words
// after os.Args[0], so a role left standing there would be taken for a plugin's name.
func takeRole(args []string) (role string, rest []string) {
	name := filepath.Base(args[0])
	if _, ok := roles[name]; ok {
		return name, args
	}
	if len(args) < 2 {
		return "", nil
	}
	return args[1], append([]string{args[1]}, args[2:]...)
}

func main() {
	role, args := takeRole(os.Args)
	run, ok := roles[role]
	if !ok {
		names := make([]string, 0, len(roles))
		for name := range roles {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "controlplane: no role %q; call it as, or with a first argument of: %s\n",
			role, strings.Join(names, ", "))
		os.Exit(64) // EX_USAGE
	}
	os.Args = args
	run()
}
