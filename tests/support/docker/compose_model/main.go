// Reads compose files as `docker compose config` does, with the library that it uses, and prints the model as JSON.
//
// compose_model FILE...: all profiles count, and variables come from the environment.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv, cli.WithProfiles([]string{"*"}))
	if err == nil {
		project, loadErr := options.LoadProject(context.Background())
		if err = loadErr; err == nil {
			text, jsonErr := project.MarshalJSON()
			if err = jsonErr; err == nil {
				fmt.Println(string(text))
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
