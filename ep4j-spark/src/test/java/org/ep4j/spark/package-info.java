/** Ranks in tasks of Spark, in processes that Spark starts. */
@NullMarked
package org.ep4j.spark;

import org.jspecify.annotations.NullMarked;
