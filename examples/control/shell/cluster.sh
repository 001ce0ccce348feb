#!/bin/sh
# Four tests of a cluster of three brokers: curl kills, cuts off and moves, kcat stands for the program under test.
set -eu
kafka=${KAFKA:-localhost:9092,localhost:9093,localhost:9094} kmini=${KMINI:-http://localhost:8090}

api() { # api VERB PATH [JSON]: what the control API answers
    answer=$(curl --silent --show-error --fail-with-body --request "$1" "$kmini/api/v1$2" ${3:+--data "$3"} \
        --header "Content-Type: application/json" --header "Authorization: Bearer ${KMINI_HTTP_TOKEN:-}") \
        || { echo "$1 $2: $answer" >&2; exit 1; }
    echo "$answer"
}

is() { # is WANTED FOUND
    [ "$1" = "$2" ] && return
    echo "wanted $1, found $2" >&2
    api GET /report >&2
    exit 1
}

a_topic_on_three_brokers() {
    api POST /reset >/dev/null
    api POST /topics '{"name": "payments", "partitions": 1, "replication_factor": 3, "config": {"min.insync.replicas": 2}}' >/dev/null
    leader=$(api GET "/topics/payments/leader?partition=0")
}

produce() { # produce TEXT: with acks=all, by way of any broker
    echo "$1" | kcat -q -b "$kafka" -P -t payments -X acks=all
}

consumed() { # all records, as a consumer gets them
    kcat -q -b "$kafka" -C -t payments -o beginning -e
}

a_record_survives_the_death_of_its_leader() {
    a_topic_on_three_brokers
    produce "payment 1"
    api POST "/brokers/$leader/kill" '{}' >/dev/null
    [ "$(api GET "/topics/payments/leader?partition=0")" != "$leader" ] || is "another leader" "$leader"
    produce "payment 2"
    is "payment 1
payment 2" "$(consumed)"
    api POST "/brokers/$leader/restart" '{}' >/dev/null
    api POST /topics/payments/wait-until-in-sync '{}' >/dev/null
    is 3 "$(api GET "/topics/payments/isr?partition=0" | jq length)"
}

a_follower_that_is_cut_off_leaves_the_isr_and_comes_back() {
    a_topic_on_three_brokers
    follower=$(api GET "/topics/payments/replicas?partition=0" | jq "map(select(. != $leader))[0]")
    api POST "/brokers/$follower/cut-off" '{}' >/dev/null
    produce "payment 1"
    is "payment 1" "$(consumed)"
    api POST "/brokers/$follower/reconnect" '{}' >/dev/null
    api POST /topics/payments/wait-until-in-sync '{}' >/dev/null
    is 3 "$(api GET "/topics/payments/isr?partition=0" | jq length)"
}

two_dead_brokers_leave_too_few_for_acks_all() {
    a_topic_on_three_brokers
    produce "payment 1"
    for broker in $(api GET "/topics/payments/replicas?partition=0" | jq "map(select(. != $leader))[]"); do
        api POST "/brokers/$broker/kill" '{}' >/dev/null
    done
    if echo "payment 2" | kcat -q -b "$kafka" -P -t payments -X acks=all -X message.timeout.ms=1000 2>/dev/null; then
        is "no answer to payment 2" "an acknowledgement"
    fi
    is "payment 1" "$(consumed)"
}

a_leader_that_is_moved_is_found_again() {
    a_topic_on_three_brokers
    other=$(api GET "/topics/payments/replicas?partition=0" | jq "map(select(. != $leader))[0]")
    api POST /topics/payments/leader "{\"partition\": 0, \"to\": $other}" >/dev/null
    is "$other" "$(api GET "/topics/payments/leader?partition=0")"
    produce "payment 1"
    is "payment 1" "$(consumed)"
}

a_record_survives_the_death_of_its_leader
a_follower_that_is_cut_off_leaves_the_isr_and_comes_back
two_dead_brokers_leave_too_few_for_acks_all
a_leader_that_is_moved_is_found_again
api POST /reset >/dev/null
echo "4 passed"
