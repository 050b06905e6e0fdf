/* Memory bandwidth of this machine, measured with the processes of the run: the bytes that a
 * dispatch delivers, copied or read without any communication. */
#ifndef EP4J_PEERS_CEILINGS_H
#define EP4J_PEERS_CEILINGS_H

#include "workload.h"

/* Collective. Measures and has rank 0 print. */
void ceilings_run(const workload* w);

#endif
