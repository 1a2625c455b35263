#!/bin/sh
python3 /tests/grade.py
