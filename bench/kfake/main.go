// One kfake broker on a fixed port, as a peer of the benchmarks: main -port PORT
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 9092, "the port on 127.0.0.1")
	flag.Parse()
	cluster, err := kfake.NewCluster(
		kfake.Ports(*port),
		kfake.NumBrokers(1),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(1),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
}
