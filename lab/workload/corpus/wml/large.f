eventgen rate=99999999999999999999
define fileset name=a,entries=1,size=9t
$