"""python -m kmini"""

from kmini.cli import main

if __name__ == "__main__":
    main()
