/** Ranks as tasks of a barrier stage of <a href="https://spark.apache.org">Apache Spark</a>. */
@NullMarked
package org.ep4j.spark;

import org.jspecify.annotations.NullMarked;
