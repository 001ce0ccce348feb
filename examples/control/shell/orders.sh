#!/bin/sh
# Two tests: curl sets the scene, kcat stands for the program under test.
set -eu
kafka=${KAFKA:-localhost:9092} kmini=${KMINI:-http://localhost:8090}

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

a_producer_goes_on_when_the_leader_moves() {
    api POST /reset >/dev/null
    api POST /topics '{"name": "orders", "partitions": 1}' >/dev/null
    api PUT /faults '{"rules": [{
        "name": "moved",
        "when": {"api": ["Produce"], "topic": "orders"},
        "which": {"times": 2},
        "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]
    }]}' >/dev/null
    echo "order 1" | kcat -q -b "$kafka" -P -t orders
    is 2 "$(api GET /faults/moved | jq .hits)"
    is "order 1" "$(api GET /topics/orders/records | jq -r '.[].value')"
}

orders_are_kept_for_a_day() {
    api POST /reset >/dev/null
    api POST /topics '{"name": "orders", "partitions": 1, "config": {
        "retention.ms": 86400000, "message.timestamp.type": "LogAppendTime"
    }}' >/dev/null
    echo "order 1" | kcat -q -b "$kafka" -P -t orders
    api POST /clock/advance '{"duration": "7d"}' >/dev/null
    echo "order 2" | kcat -q -b "$kafka" -P -t orders
    is "order 2" "$(kcat -q -b "$kafka" -C -t orders -o beginning -e)"
}

a_producer_goes_on_when_the_leader_moves
orders_are_kept_for_a_day
echo "2 passed"
