"""What quotas of clients do (KIP-13, 55, 124, 219, 599, 612). `controller/client_quotas.py` has what is stored of them.

It is imported once quotas are stored, but for `mutations.py`, which handlers ask. A broker without quotas has no
interceptor, and its handlers find None.
"""
