"""All works, in the order of the table."""

import works
import works_consul
import works_control
import works_log
import works_reap

WORKS = [works.Start(), works.Life(), works.Scale(), works.Idle(), works_log.Log(), works.Restarts(), works.Stop(),
         works_reap.Orphans(), works_control.Checks(), works_control.Control(), works_control.Events(),
         works_consul.Discovery(), works_control.Reload(), works.Size(), works_control.Asked()]
