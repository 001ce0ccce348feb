"""Files ↔ partition logs, in Apache Kafka's format (FORMAT.md). No event loop, no network.

- `log_manager`: all logs of a broker. `recovery`: one log from its files
- `log`: one partition's log. Where to begin reading. `segments`, `segment`, `log_file`: its parts, from the top
- `validation`, `tombstone_flag`, `refused_records`: whether a producer's batch may enter a log
- `retention`, `deletion`: which segments go, and the order in which they go
- `flush`, `background_work`, `log_environment`: work that waits for the disk, and the surroundings of a log
- `timestamp_search`, `leader_epochs`: offsets for timestamps, and for leader epochs
- `log_config`, `config_key`: the settings of a topic, and tables of settings
- `filenames`, `log_dir_files`, `offset_checkpoint_file`, `data_directory`, `journal`: names and small files
- `cleaner`, `producers`, `indexes`, `old_formats`, `filesystem`, `inspect`: rooms, each with a list of its own
"""
