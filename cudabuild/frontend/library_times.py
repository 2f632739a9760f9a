# SPDX-License-Identifier: Apache-2.0
"""Dates, written in the kernel language: months and days, by the proleptic Gregorian calendar, and NaT.

The calendar counts from 1 March of year 0, so that a leap day ends a year; 400 years have 146097 days.
"""

from __future__ import annotations

from typing import Any

__all__ = ["days_of_months", "months_of_days", "quotient", "rescale", "scale_by", "whole"]

_NAT = -(1 << 63)
_EPOCH = 719468  #: days from 1 March of year 0 to 1 January 1970


def rescale(value: Any, factor: Any, divisor: Any) -> Any:
    """``value * factor / divisor``, rounded down; NaT stays NaT."""
    if value == _NAT:
        return value
    return value * factor // divisor


def scale_by(value: Any, factor: float) -> Any:
    """A span times a float, cut to a whole number; NaT where there is none."""
    if value == _NAT:
        return value
    product = value * factor
    if product != product or product >= 9.223372036854775807e18 or product <= -9.223372036854775808e18:
        return value * 0 + _NAT
    return value * 0 + int(product)


def days_of_months(months: Any) -> Any:
    """Months since January 1970 to days since 1 January 1970: the first of the month."""
    if months == _NAT:
        return months
    year = months // 12 + 1970
    month = months % 12  # 0 is January
    if month < 2:
        year -= 1
    from_march = (month + 10) % 12
    days = year * 365 + year // 4 - year // 100 + year // 400 + (153 * from_march + 2) // 5
    return days - _EPOCH


def months_of_days(days: Any) -> Any:
    """Days since 1 January 1970 to months since January 1970."""
    if days == _NAT:
        return days
    shifted = days + _EPOCH
    era = shifted // 146097
    day = shifted - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    in_year = day - (365 * year + year // 4 - year // 100)
    from_march = (5 * in_year + 2) // 153
    month = from_march + 2 if from_march < 10 else from_march - 10
    full = year + era * 400 + (1 if month < 2 else 0)
    return (full - 1970) * 12 + month


def whole(value: Any, quotient: float) -> Any:
    """A float as a number of units, cut; NaT where the span is NaT or the float is no number."""
    if value == _NAT or quotient != quotient or abs(quotient) >= 9.223372036854775807e18:
        return value * 0 + _NAT
    return value * 0 + int(quotient)


def quotient(value: Any, divisor: Any) -> Any:
    """A span divided by an integer, cut towards zero; NaT for a divisor of 0."""
    if value == _NAT or divisor == 0:
        return value * 0 + _NAT
    result = abs(value) // abs(divisor)
    return result if (value < 0) == (divisor < 0) else -result
