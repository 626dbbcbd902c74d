"""All works, in the order of the table."""

import works
import works_log

WORKS = [works.Start(), works.Life(), works.Scale(), works.Idle(), works_log.Log(), works.Restarts(), works.Stop(), works.Size()]
