// Starts kmini's image by the module of testcontainers-go, says where the broker is, and ends it when its input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

func main() {
	ctx := context.Background()
	container, err := kafka.Run(ctx, os.Args[1])
	if err == nil {
		brokers, brokersErr := container.Brokers(ctx)
		if err = brokersErr; err == nil {
			fmt.Println(brokers[0])
			io.Copy(io.Discard, os.Stdin)
			err = container.Terminate(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
